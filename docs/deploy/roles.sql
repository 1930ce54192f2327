-- A user for the nodes that owns nothing: it can neither change nor drop the tables. As the owner of the database, who
-- must be able to make roles (`alter role owner createrole`), after the first start of `tandem serve` (which makes the
-- tables), and after an update that adds one:
--   psql postgres://owner@db.example/tandem -f roles.sql
-- Give the user the password that the nodes have in PGPASSWORD:
--   psql postgres://owner@db.example/tandem -c '\password tandem_node'
do $$ begin
  if not exists (select from pg_roles where rolname = 'tandem_node') then
    create role tandem_node login;
  end if;
end $$;
grant usage on schema tandem to tandem_node;
grant select, insert, update, delete on all tables in schema tandem to tandem_node;
revoke insert, update, delete on tandem.schema_version from tandem_node;
grant usage on all sequences in schema tandem to tandem_node;
-- What this user's tandem adds later:
alter default privileges in schema tandem grant select, insert, update, delete on tables to tandem_node;
alter default privileges in schema tandem grant usage on sequences to tandem_node;
