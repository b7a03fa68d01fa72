-- lock_capacities: capacities, deleted or not, against other grants and changes.
select c.* from capacity c where name = any($1::text[]) order by name for no key update
