// Package procgroup starts programs in process groups of their own, and signals a
// group as a whole. On systems without process groups the started program stands for
// its group.
package procgroup
