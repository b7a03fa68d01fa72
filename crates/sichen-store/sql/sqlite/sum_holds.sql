-- sum_holds: units held of these capacities (a JSON array of names) at ?2, how many hold them, and when the first
-- of those that nobody has confirmed dead counts no more.
select h.capacity, sum(h.units), count(*), min(h.until) from json_each(?1) join hold h on h.capacity = json_each.value
where h.until is null or h.until > ?2 group by h.capacity
