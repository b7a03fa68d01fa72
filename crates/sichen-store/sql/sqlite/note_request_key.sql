-- note_request_key: a step of the request of the key ?1 is done, if the attempt ?2 still has it.
update request_key set done = ?3 where key = ?1 and holder = ?2
