-- insert_op: record that an operation was committed; a repeat changes nothing.
insert into op (id, at, actor) values (?1, ?2, ?3) on conflict (id) do nothing
