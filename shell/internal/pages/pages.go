// Package pages reads a list of the engine to its end, page by page.
package pages

import (
	"iter"

	"github.com/orrery-go/orrery/shell"
)

// List reads one page of a list: it is what the engine's list methods do.
type List[T any] = func(shell.Page) (list []T, next string, err error)

// Each gives the pages of a list with at most limit elements each, and ends after the
// first error.
func Each[T any](limit int, read List[T]) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		page := shell.Page{Limit: limit}
		for {
			list, next, err := read(page)
			if !yield(list, err) || err != nil || next == "" {
				return
			}
			page.Token = next
		}
	}
}

// All gives the elements of a list, which it reads in pages of at most limit, and
// ends after the first error.
func All[T any](limit int, read List[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for list, err := range Each(limit, read) {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}
