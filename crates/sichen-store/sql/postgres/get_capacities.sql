-- get_capacities: those of these capacities that are not deleted.
select c.* from capacity c where name = any($1::text[]) and not deleted order by name
