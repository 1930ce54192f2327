//! Files beside the logs of sessions. A file is stored in parts, each in its own row.

use std::io;

use tandem_agent::session::{StoreError, StoredFile};

use super::connection::{Params, get};
use super::shared::Shared;

/// Maximum number of bytes of a part. Small parts keep each statement short, so other callers do not wait for long.
const MAX_PART_BYTES: usize = 1 << 20;

const READ_QUERY: &str = "select bytes, substr(content, 1, $4) from tandem.file \
                    where session = $1 and name = $2 and part = $3";

/// Statement that writes a part, if this node still owns the session in this epoch.
const PUT_STATEMENT: &str = "
with s as (select id from tandem.session where id = $1 and epoch = $2 for update)
insert into tandem.file(session, name, part, bytes, content) select id, $3::text, $4::int, $5::bigint, $6::bytea from s
on conflict(session, name, part) do update set bytes = excluded.bytes, content = excluded.content
returning session";

const REMOVE_STATEMENT: &str = "
with s as (select id from tandem.session where id = $1 and epoch = $2 for update)
delete from tandem.file f using s where f.session = s.id and f.name = $3";

const COPY_STATEMENT: &str = "
with s as (select id from tandem.session where id = $1 and epoch = $2 for update)
insert into tandem.file(session, name, part, bytes, content)
select s.id, f.name, f.part, f.bytes, f.content from tandem.file f, s where f.session = $3
on conflict do nothing";

pub(super) async fn list(shared: &Shared, id: &str) -> Result<Vec<StoredFile>, StoreError> {
    let sql = "select name, bytes from tandem.file where session = $1 and part = 0 order by name";
    let rows = shared.database.query(sql, &[&id]).await?;
    let file = |row| {
        let bytes: i64 = get(row, 1)?;
        Ok(StoredFile { name: get(row, 0)?, bytes: u64::try_from(bytes).unwrap_or(u64::MAX) })
    };
    rows.iter().map(file).collect()
}

pub(super) async fn read(
    shared: &Shared,
    id: &str,
    name: &str,
    max: u64,
) -> Result<Vec<u8>, StoreError> {
    let wrong = |why: &str| StoreError::Invalid(format!("its file {name}: {why}"));
    let mut content = Vec::new();
    for part in 0.. {
        let most = i32::try_from(MAX_PART_BYTES).unwrap_or(i32::MAX);
        let row = shared.database.query(READ_QUERY, &[&id, &name, &part, &most]).await?.pop();
        let row = row.ok_or_else(|| wrong("a part is missing"))?;
        let bytes: i64 = get(&row, 0)?;
        let Some(bytes) = u64::try_from(bytes).ok().filter(|bytes| *bytes <= max) else {
            return Err(wrong("it has more bytes than are read"));
        };
        let piece: &[u8] = get(&row, 1)?;
        content.extend_from_slice(piece);
        match content.len() as u64 {
            length if length == bytes => break,
            length if length > bytes || piece.is_empty() => return Err(wrong("its size is wrong")),
            _ => {}
        }
    }
    Ok(content)
}

/// Stores a file. Writes the first part last, and `list` shows only files that have it: a listed file is complete.
pub(super) async fn put(
    shared: &Shared,
    id: &str,
    name: &str,
    content: &[u8],
) -> Result<(), StoreError> {
    let epoch = epoch(shared, id)?;
    let bytes = i64::try_from(content.len()).map_err(io::Error::other)?;
    // An empty file has one empty part.
    for part in (0..content.len().div_ceil(MAX_PART_BYTES).max(1)).rev() {
        let piece = content.chunks(MAX_PART_BYTES).nth(part).unwrap_or_default();
        let number = i32::try_from(part).map_err(io::Error::other)?;
        let params: Params<'_> = &[&id, &epoch, &name, &number, &bytes, &piece];
        if shared.database.query_until_answered(PUT_STATEMENT, params).await?.is_empty() {
            return Err(StoreError::TakenOver);
        }
    }
    Ok(())
}

pub(super) async fn remove(shared: &Shared, id: &str, name: &str) -> Result<(), StoreError> {
    let epoch = epoch(shared, id)?;
    shared.database.query_until_answered(REMOVE_STATEMENT, &[&id, &epoch, &name]).await.map(drop)
}

pub(super) async fn copy(shared: &Shared, from: &str, id: &str) -> Result<(), StoreError> {
    let epoch = epoch(shared, id)?;
    shared.database.query(COPY_STATEMENT, &[&id, &epoch, &from]).await.map(drop)
}

/// Returns the epoch in which this node owns a session.
fn epoch(shared: &Shared, id: &str) -> Result<i64, StoreError> {
    let held = shared.held.lock();
    held.get(id).map(|held| held.epoch).ok_or(StoreError::TakenOver)
}
