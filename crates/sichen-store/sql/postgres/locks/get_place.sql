-- get_place: in which installation, database and table this is and on which timeline, and where it was last seen.
-- A standby that was promoted is on its new timeline at once, by its log; its control file says so later.
select (select system_identifier::text from pg_control_system())
    || '/' || (select oid::text from pg_database where datname = current_database()) || '/' || 'meta'::regclass::oid::text,
  ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint,
  place, timeline from meta where id = 1
