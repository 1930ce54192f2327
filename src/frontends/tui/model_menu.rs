//! Choice of the model that answers, and of its level of thinking, with a filter that the user types. This module is
//! pure: it gets the models as a parameter.

use super::input::{Edit, TextInput};
use tandem_agent::session::{DEFAULT_THINKING, ModelGroup, OfferedModel, ThinkingLevels};

/// The model that answers, as the menu begins with it.
#[derive(Debug, Clone)]
pub(super) struct CurrentModel {
    pub(super) id: String,
    /// Levels of thinking that it offers.
    pub(super) thinking: ThinkingLevels,
    /// Level of thinking that was chosen, if one was.
    pub(super) level: Option<String>,
}

/// Choice among the models that can answer, and then among the levels of thinking of the chosen model.
#[derive(Debug)]
pub(super) struct ModelMenu {
    current: CurrentModel,
    /// Models; `None` until they are known.
    models: Option<FilteredList<OfferedModel>>,
    /// The chosen model and its levels, once the model is chosen.
    levels: Option<(OfferedModel, FilteredList<String>)>,
    /// `true` if the menu began with the levels of the current model.
    is_about_levels: bool,
}

/// A model and a level of thinking that the user has chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelMenuChoice {
    /// Id of the model, unless it answers already.
    pub(super) model: Option<String>,
    /// Level of thinking, unless it is the current one.
    pub(super) level: Option<String>,
}

/// Texts of a row of the menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MenuRow {
    pub(super) title: String,
    /// Facts for people, at the end of the row.
    pub(super) facts: String,
}

/// Items of a menu, of which those that have all typed words are offered.
#[derive(Debug)]
struct FilteredList<T> {
    items: Vec<(T, MenuRow)>,
    filter: TextInput,
    /// Indexes of the items that match the filter.
    fitting: Vec<usize>,
    /// Index of the marked item among those that match.
    selected: usize,
}

impl ModelMenu {
    /// Creates the choice of a model. The caller must read the models.
    pub(super) fn of_models(current: CurrentModel) -> Self {
        Self { current, models: None, levels: None, is_about_levels: false }
    }

    /// Creates the choice among the current model's levels of thinking; `None` if it offers none.
    pub(super) fn of_levels(current: CurrentModel) -> Option<Self> {
        let (id, thinking) = (current.id.clone(), current.thinking.clone());
        let model = OfferedModel { id, window: None, price: None, thinking };
        let levels = levels(&model, &current)?;
        Some(Self { current, models: None, levels: Some((model, levels)), is_about_levels: true })
    }

    /// Takes in the models that can answer. The model that answers is among them in any case, and is marked.
    pub(super) fn read(&mut self, groups: Vec<ModelGroup>) {
        let mut items = Vec::new();
        for group in groups {
            let place = group.provider.title().to_owned();
            items.extend(group.models.into_iter().map(|model| (place.clone(), model)));
        }
        let CurrentModel { id, thinking, .. } = &self.current;
        // The model itself may know more of its levels than the catalog.
        let thinking = thinking.clone();
        if let Some((_, model)) = items.iter_mut().find(|(_, model)| model.id == *id) {
            model.thinking = thinking;
        } else {
            let model = OfferedModel { id: id.clone(), window: None, price: None, thinking };
            items.insert(0, (String::new(), model));
        }
        let at = items.iter().position(|(_, model)| model.id == *id);
        let rows = items.into_iter().map(|(place, model)| {
            let row = model_row(&model, &place, id);
            (model, row)
        });
        let mut list = FilteredList::new(rows.collect());
        list.selected = at.unwrap_or(0);
        self.models = Some(list);
    }

    /// Returns the heading of the choice.
    pub(super) fn heading(&self) -> String {
        match &self.levels {
            Some((model, _)) => format!("How much `{}` thinks", model.id),
            None => "Choose the model that answers".to_owned(),
        }
    }

    /// Returns the filter; `None` until the models are known.
    pub(super) fn filter(&self) -> Option<&TextInput> {
        match (&self.levels, &self.models) {
            (Some((_, levels)), _) => Some(&levels.filter),
            (None, models) => models.as_ref().map(|models| &models.filter),
        }
    }

    /// Returns the rows that match the filter, and the index of the marked row; `None` until the models are known.
    pub(super) fn rows(&self) -> Option<(Vec<&MenuRow>, usize)> {
        match (&self.levels, &self.models) {
            (Some((_, levels)), _) => Some((levels.rows(), levels.selected)),
            (None, models) => models.as_ref().map(|models| (models.rows(), models.selected)),
        }
    }

    pub(super) fn edit(&mut self, edit: &Edit) {
        match (&mut self.levels, &mut self.models) {
            (Some((_, levels)), _) => levels.edit(edit),
            (None, Some(models)) => models.edit(edit),
            (None, None) => {}
        }
    }

    /// Marks the next row, or the previous row.
    pub(super) fn select(&mut self, down: bool) {
        match (&mut self.levels, &mut self.models) {
            (Some((_, levels)), _) => levels.select(down),
            (None, Some(models)) => models.select(down),
            (None, None) => {}
        }
    }

    /// Takes the marked row. Returns the choice once it is made: a model that offers levels of thinking needs one more
    /// step.
    pub(super) fn enter(&mut self) -> Option<ModelMenuChoice> {
        if let Some((model, levels)) = &self.levels {
            let level = levels.marked()?.clone();
            let before = self.current.level.as_deref().unwrap_or(DEFAULT_THINKING);
            let level = Some(level).filter(|level| level != before);
            return Some(ModelMenuChoice { model: self.other(model), level });
        }
        let model = self.models.as_ref()?.marked()?.clone();
        if let Some(levels) = levels(&model, &self.current) {
            self.levels = Some((model, levels));
            return None;
        }
        Some(ModelMenuChoice { model: self.other(&model), level: None })
    }

    /// Goes one step back; returns `false` at the first step.
    pub(super) fn back(&mut self) -> bool {
        self.levels.take().is_some() && !self.is_about_levels
    }

    /// Returns the model's id, unless the model answers already.
    fn other(&self, model: &OfferedModel) -> Option<String> {
        Some(model.id.clone()).filter(|id| *id != self.current.id)
    }
}

/// Returns the levels of thinking that a model offers, with the level marked that it would have; `None` if it offers
/// none.
fn levels(model: &OfferedModel, current: &CurrentModel) -> Option<FilteredList<String>> {
    let ThinkingLevels { levels, default } = &model.thinking;
    if levels.is_empty() {
        return None;
    }
    let level = current.level.as_deref().unwrap_or(DEFAULT_THINKING);
    let mark = |name: &str| if name == level { "current" } else { "" };
    let first = {
        let own = default.as_deref().map(|default| format!("the model's own: {default}"));
        let facts = [own.as_deref().unwrap_or_default(), mark(DEFAULT_THINKING)];
        let facts = facts.into_iter().filter(|fact| !fact.is_empty()).collect::<Vec<_>>();
        MenuRow { title: DEFAULT_THINKING.to_owned(), facts: facts.join(", ") }
    };
    let others = levels.iter().map(|name| {
        let row = MenuRow { title: name.clone(), facts: mark(name).to_owned() };
        (name.clone(), row)
    });
    let items = std::iter::once((DEFAULT_THINKING.to_owned(), first)).chain(others);
    let mut list = FilteredList::new(items.collect());
    list.selected = list.items.iter().position(|(name, _)| name == level).unwrap_or(0);
    Some(list)
}

/// Returns the row of a model: its id, and its place, window and price.
fn model_row(model: &OfferedModel, place: &str, current: &str) -> MenuRow {
    let window = model.window.map(|tokens| match tokens {
        0..1000 => format!("{tokens} tokens"),
        _ => format!("{}k tokens", tokens / 1000),
    });
    let price = model.price.map(|price| format!("${}/${}", price.input, price.output));
    let place = Some(place.to_owned()).filter(|place| !place.is_empty());
    let mark = (model.id == current).then(|| "current".to_owned());
    let facts = [mark, window, price, place].into_iter().flatten().collect::<Vec<_>>();
    MenuRow { title: model.id.clone(), facts: facts.join(", ") }
}

impl<T> FilteredList<T> {
    fn new(items: Vec<(T, MenuRow)>) -> Self {
        let fitting = (0..items.len()).collect();
        Self { items, filter: TextInput::default(), fitting, selected: 0 }
    }

    fn rows(&self) -> Vec<&MenuRow> {
        self.fitting.iter().filter_map(|at| self.items.get(*at)).map(|(_, row)| row).collect()
    }

    fn marked(&self) -> Option<&T> {
        self.items.get(*self.fitting.get(self.selected)?).map(|(item, _)| item)
    }

    fn select(&mut self, down: bool) {
        let last = self.fitting.len().saturating_sub(1);
        self.selected =
            if down { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
    }

    /// Changes the filter, and offers the items whose texts have all of its words.
    fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Insert(text) => {
                self.filter.edit(&Edit::Insert(text.replace(['\n', '\r'], " ")));
            }
            edit => self.filter.edit(edit),
        }
        let words = self.filter.text().to_lowercase();
        let words: Vec<_> = words.split_whitespace().collect();
        let fits = |row: &MenuRow| {
            let searched = format!("{} {}", row.title, row.facts).to_lowercase();
            words.iter().all(|word| searched.contains(word))
        };
        let fitting = self.items.iter().enumerate().filter(|(_, (_, row))| fits(row));
        self.fitting = fitting.map(|(at, _)| at).collect();
        self.selected = 0;
    }
}
