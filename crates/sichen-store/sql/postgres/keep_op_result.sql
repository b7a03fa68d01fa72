-- keep_op_result: keep the id that an operation gives out.
update op set result = $2 where id = $1
