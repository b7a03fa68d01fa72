-- dump_decisions: every row, for tests and checks on small stores.
-- scans: decision
select job_uid, from_at, to_at, count, reason, reference, filled, filled_by from decision order by id
