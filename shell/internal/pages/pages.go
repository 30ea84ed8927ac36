// Package pages reads a list of the engine to its end, page by page.
package pages

import (
	"context"
	"iter"

	"github.com/orrery-go/orrery/shell"
)

// List reads one page of what a filter chooses: each list method of the engine is one.
type List[F, T any] = func(context.Context, F, shell.Page) (list []T, next string, err error)

// Each gives the pages of a list with at most limit elements each, and ends after the
// first error.
func Each[F, T any](ctx context.Context, limit int, read List[F, T], of F) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		page := shell.Page{Limit: limit}
		for {
			list, next, err := read(ctx, of, page)
			if !yield(list, err) || err != nil || next == "" {
				return
			}
			page.Token = next
		}
	}
}

// All gives the elements of a list, which it reads in pages of at most limit, and
// ends after the first error.
func All[F, T any](ctx context.Context, limit int, read List[F, T], of F) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for list, err := range Each(ctx, limit, read, of) {
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
