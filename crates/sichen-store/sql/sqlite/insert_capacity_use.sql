-- insert_capacity_use: a job uses a capacity.
insert into capacity_use (job_uid, name, units) values (?1, ?2, ?3)
