-- count_notices: how many wait for whom; there are few.
-- scans: notice
select receiver, count(*) from notice group by receiver order by receiver
