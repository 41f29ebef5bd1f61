package main

import "github.com/none/such"

func main() { such.Do() }
