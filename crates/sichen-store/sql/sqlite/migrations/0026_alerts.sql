-- Alerts, and what is to be sent of them. Runs that ended without success are found by when they did.
create table alert (
  name text not null primary key check (length(name) <= 300),
  document text not null
) strict, without rowid;
create table notice (
  id blob not null primary key check (length(id) = 16),
  receiver text not null check (length(receiver) <= 100),
  body text not null,
  created_at integer not null,
  due_at integer not null,
  tries integer not null check (tries >= 0)
) strict, without rowid;
create index notice_due on notice (due_at, id);
create index notice_receiver on notice (receiver);
create index run_unsuccessful on run (ended_at, id) where ended_at is not null and state <> 'succeeded';
