-- count_notices: how many wait for whom; there are few.
select receiver, count(*) from notice group by receiver order by receiver
