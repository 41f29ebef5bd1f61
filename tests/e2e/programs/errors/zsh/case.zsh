case x in
  a) echo 1
