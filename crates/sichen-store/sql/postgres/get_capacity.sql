-- get_capacity: a capacity, deleted or not.
select c.* from capacity c where name = $1
