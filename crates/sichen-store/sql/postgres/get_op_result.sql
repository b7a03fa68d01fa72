-- get_op_result: the id that an operation gave out.
select result from op where id = $1
