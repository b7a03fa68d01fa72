-- count_accounts: all users; there are never many.
-- scans: account
select count(*) from account
