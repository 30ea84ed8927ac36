package memory

import "iter"

// tree is an ordered map that never changes: put and del give a new tree that
// shares what did not change. So a snapshot costs nothing, and a rollback is
// forgetting the new tree. It is an AVL tree, which needs no randomness.
//
// The zero tree with a cmp is empty.
type tree[K, V any] struct {
	root *node[K, V]
	cmp  func(a, b K) int
}

type node[K, V any] struct {
	key         K
	value       V
	left, right *node[K, V]
	height      int
}

func (t tree[K, V]) get(key K) (V, bool) {
	n := t.root
	for n != nil {
		switch c := t.cmp(key, n.key); {
		case c == 0:
			return n.value, true
		case c < 0:
			n = n.left
		default:
			n = n.right
		}
	}
	var none V
	return none, false
}

func (t *tree[K, V]) put(key K, value V) { t.root = insert(t.root, t.cmp, key, value) }

func (t *tree[K, V]) del(key K) { t.root = remove(t.root, t.cmp, key) }

// from yields what stands at key and after it, in order.
func (t tree[K, V]) from(key K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { ascend(t.root, t.cmp, key, yield) }
}

// within yields what from yields, as long as the keys are in the range.
func (t tree[K, V]) within(key K, in func(K) bool) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		ascend(t.root, t.cmp, key, func(k K, v V) bool { return in(k) && yield(k, v) })
	}
}

// downFrom yields what stands at key and before it, in reverse order.
func (t tree[K, V]) downFrom(key K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { descend(t.root, t.cmp, key, yield) }
}

// all yields everything in order.
func (t tree[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { walk(t.root, yield) }
}

// values gives the first values, at most limit.
func (t tree[K, V]) values(limit int) (found []V) {
	for _, v := range t.all() {
		if len(found) >= limit {
			break
		}
		found = append(found, v)
	}
	return found
}

func walk[K, V any](n *node[K, V], yield func(K, V) bool) bool {
	return n == nil || walk(n.left, yield) && yield(n.key, n.value) && walk(n.right, yield)
}

func ascend[K, V any](n *node[K, V], cmp func(a, b K) int, key K, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if cmp(n.key, key) >= 0 {
		if !ascend(n.left, cmp, key, yield) || !yield(n.key, n.value) {
			return false
		}
	}
	return ascend(n.right, cmp, key, yield)
}

func descend[K, V any](n *node[K, V], cmp func(a, b K) int, key K, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if cmp(n.key, key) <= 0 {
		if !descend(n.right, cmp, key, yield) || !yield(n.key, n.value) {
			return false
		}
	}
	return descend(n.left, cmp, key, yield)
}

func insert[K, V any](n *node[K, V], cmp func(a, b K) int, key K, value V) *node[K, V] {
	if n == nil {
		return &node[K, V]{key: key, value: value, height: 1}
	}
	switch c := cmp(key, n.key); {
	case c < 0:
		return join(insert(n.left, cmp, key, value), n, n.right)
	case c > 0:
		return join(n.left, n, insert(n.right, cmp, key, value))
	}
	return &node[K, V]{key: key, value: value, left: n.left, right: n.right, height: n.height}
}

func remove[K, V any](n *node[K, V], cmp func(a, b K) int, key K) *node[K, V] {
	if n == nil {
		return nil
	}
	switch c := cmp(key, n.key); {
	case c < 0:
		return join(remove(n.left, cmp, key), n, n.right)
	case c > 0:
		return join(n.left, n, remove(n.right, cmp, key))
	}
	switch {
	case n.left == nil:
		return n.right
	case n.right == nil:
		return n.left
	}
	next := n.right
	for next.left != nil {
		next = next.left
	}
	return join(n.left, next, remove(n.right, cmp, next.key))
}

// join makes a balanced tree of left, the entry of n, and right, whose heights
// differ by at most 2.
func join[K, V any](left, n, right *node[K, V]) *node[K, V] {
	switch {
	case height(left) > height(right)+1:
		if height(left.left) >= height(left.right) {
			return link(left.left, left, link(left.right, n, right))
		}
		m := left.right
		return link(link(left.left, left, m.left), m, link(m.right, n, right))
	case height(right) > height(left)+1:
		if height(right.right) >= height(right.left) {
			return link(link(left, n, right.left), right, right.right)
		}
		m := right.left
		return link(link(left, n, m.left), m, link(m.right, right, right.right))
	}
	return link(left, n, right)
}

func link[K, V any](left, n, right *node[K, V]) *node[K, V] {
	return &node[K, V]{key: n.key, value: n.value, left: left, right: right, height: 1 + max(height(left), height(right))}
}

func height[K, V any](n *node[K, V]) int {
	if n == nil {
		return 0
	}
	return n.height
}
