package main

import "ftm"

func main() { ftm.Println() }
