package main

import "sort"

func main() {
	a := []int{3, 1, 2}
	sort.Slice(a, func(i, j int) bool {
		panic("in the less function")
	})
}
