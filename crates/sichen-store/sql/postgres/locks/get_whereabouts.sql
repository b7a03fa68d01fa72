-- get_whereabouts: in which installation, database and table this connection ends and on which timeline, as get_place
-- has it; both null on a standby, which has no timeline of its own.
select case when pg_is_in_recovery() then null else (select system_identifier::text from pg_control_system())
    || '/' || (select oid::text from pg_database where datname = current_database())
    || '/' || to_regclass('meta')::oid::text end,
  case when pg_is_in_recovery() then null
    else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint end
