-- get_capacities: those of these capacities (a JSON array of names) that are not deleted.
select c.* from json_each(?1) join capacity c on c.name = json_each.value where not c.deleted order by c.name
