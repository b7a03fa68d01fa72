-- fill_capacity: what a capacity's bucket holds after some was taken of it.
update capacity set level = ?2, filled_at = ?3 where name = ?1
