#!/bin/bash
set -eu
load() {
  local file=$1
  while read -r line; do
    echo "$line"
  done < "$file"
}
load /no/such/file
