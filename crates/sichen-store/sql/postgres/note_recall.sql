-- note_recall: the version of a shard that was asked to give its slot up (guards: token $3, running).
update shard set ver = ver + 1 where run_id = $1 and no = $2 and token = $3 and state = 'running'
