-- delete_ops: forget operations up to the one that was recorded as ?1: their history is removed.
delete from op where n <= ?1
