#!/bin/bash
set -e
num=5
if [ $num -eq 5 ; then
  echo yes
fi
exit 1
