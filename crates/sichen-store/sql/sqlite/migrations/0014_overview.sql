-- What was not run lately, whatever its job. The index is made at once; the table of decisions has a row
-- for each gap, not for each run, so writers wait for moments. It is of an expression, so that no
-- statement about one job is planned on it.
create index decision_at on decision ((to_at + 0));
