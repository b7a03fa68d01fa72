-- dump_accounts: every row, for tests and checks on small stores.
-- scans: account
select document from account order by name
