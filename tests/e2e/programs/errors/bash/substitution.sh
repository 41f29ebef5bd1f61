#!/bin/bash
result=$(
  echo one
  parse_things --all
)
echo "$result"
exit 3
