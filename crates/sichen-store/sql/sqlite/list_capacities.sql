-- list_capacities: capacities after ?1 by name.
select c.* from capacity c where name > ?1 and not deleted order by name limit ?2
