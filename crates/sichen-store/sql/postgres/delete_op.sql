-- delete_op: forget an operation whose history is removed.
delete from op where n = $1
