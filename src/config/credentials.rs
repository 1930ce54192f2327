//! The key to call the model with: finds it, stores it, and knows it when it sees it.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::GET_A_KEY;
use super::endpoint::{self, Found, HEADERS, Unusable};
use super::env::{DotEnv, Env, KEYS, Vars};
use super::key_file::{self, Stored};
use crate::model::Secret;
use crate::model::gemini::{Connect, Endpoint};
use crate::sync::Mutex;

/// A shorter key is looked for as a whole only, or it would be found everywhere.
const LONG: usize = 16;

/// Finds the key. Nothing is read before it is asked for.
pub struct Credentials {
    env: Env,
    state: Mutex<State>,
    /// For whoever asks the person: one at a time.
    pub(super) asking: Semaphore,
}

#[derive(Default)]
struct State {
    /// Kept once it was of use: what the agent itself writes into a `.env` must not change where
    /// its next request goes.
    dotenv: Option<Arc<DotEnv>>,
    /// What the person has given to this process: it counts before all that is set up.
    given: Option<Secret>,
    /// Every key that was found.
    keys: Vec<Secret>,
    /// What the log has been told already.
    remarks: Vec<String>,
}

impl Credentials {
    /// Looks in this environment.
    pub fn new(env: Env) -> Arc<Self> {
        let keys = KEYS.iter().filter_map(|name| endpoint::clean_key(env.var(name)?).ok());
        let state = State { keys: keys.collect(), ..State::default() };
        Arc::new(Self { env, state: Mutex::new(state), asking: Semaphore::new(1) })
    }

    /// For a model to ask, before each request.
    pub fn connect(self: &Arc<Self>) -> Connect {
        let credentials = Arc::clone(self);
        Arc::new(move || credentials.endpoint())
    }

    /// Where and with which key the model is called. The error says what to do.
    pub fn endpoint(&self) -> Result<Endpoint, String> {
        match self.look() {
            Ok(found) => Ok(found.endpoint),
            Err(unusable) => Err(self.explain(unusable)),
        }
    }

    /// Has everything read again.
    pub fn refresh(&self) {
        self.state.lock().dotenv = None;
    }

    /// Whether an environment variable must not reach a program that is started: a key, or
    /// anything with one in it. Reads no file.
    pub fn is_secret(&self, name: &str, value: &str) -> bool {
        let has = |key: &Secret| {
            let key = key.expose();
            value.trim() == key || key.len() >= LONG && value.contains(key)
        };
        KEYS.contains(&name) || name == HEADERS || self.state.lock().keys.iter().any(has)
    }

    /// Stores a key, in place of the one that was stored before. Returns the file.
    pub fn store(&self, key: &Secret) -> Result<PathBuf, String> {
        let path = self.key_file()?;
        self.know(key);
        key_file::write(&path, Some(key))?;
        Ok(path)
    }

    /// Uses a key from now on, whatever else is set up: the person has just given it.
    pub(super) fn give(&self, key: Secret) {
        self.state.lock().given = Some(key);
    }

    /// Removes the stored key. Returns the file, if there was a key in it.
    pub fn forget(&self) -> Result<Option<PathBuf>, String> {
        self.state.lock().given = None;
        let path = self.key_file()?;
        if key_file::read(&path).is_ok_and(|stored| stored.key.is_none()) {
            return Ok(None);
        }
        key_file::write(&path, None)?;
        Ok(Some(path))
    }

    /// The environment that is looked in.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Where keys are stored.
    pub(super) fn key_file(&self) -> Result<PathBuf, String> {
        let dir = self.env.config_dir().ok_or("There is no home directory: set HOME.")?;
        Ok(dir.join("credentials.json"))
    }

    /// The key to use now.
    pub(super) fn look(&self) -> Result<Found, Unusable> {
        let given = self.state.lock().given.clone();
        match given {
            Some(key) => Ok(Found { endpoint: self.endpoint_for(&key)?, variable: None }),
            None => self.set_up(),
        }
    }

    /// The key that another process would find.
    pub(super) fn set_up(&self) -> Result<Found, Unusable> {
        let dotenv = self.dotenv();
        let found = endpoint::find(Vars { env: &self.env, dotenv: &dotenv }, || self.stored());
        if let Some(key) = found.as_ref().ok().and_then(|found| found.endpoint.key.as_ref()) {
            self.know(key);
        }
        self.state.lock().dotenv = found.is_ok().then_some(dotenv);
        found
    }

    /// The endpoint that a key is for, if it is stored.
    pub(super) fn endpoint_for(&self, key: &Secret) -> Result<Endpoint, String> {
        let dotenv = self.dotenv();
        endpoint::gemini(Vars { env: &self.env, dotenv: &dotenv }, Some(key.clone()))
    }

    /// What is wrong, and what to do.
    pub(super) fn explain(&self, unusable: Unusable) -> String {
        if let Unusable::Wrong(why) = unusable {
            return why;
        }
        let dotenv = self.dotenv();
        let file = self.env.gemini_dir().map(|dir| dir.join(".env").display().to_string());
        let mut text = format!(
            "There is no Gemini API key. Set GEMINI_API_KEY in the environment, or run `tandem \
             login` in a terminal, or put a line GEMINI_API_KEY=… into {}. You get a key at \
             {GET_A_KEY}.",
            file.as_deref().unwrap_or("~/.gemini/.env"),
        );
        if let Some(file) = &dotenv.file {
            text.extend([" (", &file.display().to_string(), " was read, and has none.)"]);
        }
        for remark in &dotenv.remarks {
            text.extend([" ", remark]);
        }
        text
    }

    fn dotenv(&self) -> Arc<DotEnv> {
        let kept = self.state.lock().dotenv.clone();
        let dotenv = kept.unwrap_or_else(|| Arc::new(DotEnv::read(&self.env)));
        self.remark(&dotenv.remarks);
        dotenv
    }

    fn stored(&self) -> Result<Option<Secret>, String> {
        let Ok(path) = self.key_file() else {
            return Ok(None);
        };
        let Stored { key, remark } = key_file::read(&path)?;
        self.remark(remark.as_slice());
        Ok(key)
    }

    /// Keeps a secret from what is started from now on.
    pub fn know(&self, key: &Secret) {
        let keys = &mut self.state.lock().keys;
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }

    /// Tells the log what it has not been told.
    fn remark(&self, remarks: &[String]) {
        let told = &mut self.state.lock().remarks;
        for remark in remarks {
            if !told.contains(remark) {
                tracing::warn!("{remark}");
                told.push(remark.clone());
            }
        }
    }
}
