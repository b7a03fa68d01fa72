-- sum_holds: units held of these capacities at $2, how many hold them, and when the first of those that nobody has
-- confirmed dead counts no more.
select capacity, sum(units)::bigint, count(*), min(until) from hold
where capacity = any($1::text[]) and (until is null or until > $2) group by capacity
