load() {
  while read -r line; do
    print $line
  done < $1
}
load /no/such/file
exit 1
