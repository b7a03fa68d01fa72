-- answer_request_key: the attempt $2 answers the request of the key $1, or ($3) gives the key to another.
update request_key set holder = $3, status = $4, kind = $5, body = $6 where key = $1 and holder = $2
