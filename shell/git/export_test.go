package git

// OnStep calls f at the steps of an operation.
func OnStep(g *Git, f func(step string)) { g.step = f }

// CheckBranch is the check of a branch's name.
func CheckBranch(name string) error { return checkBranch("branch", name) }

// Resolve is the check of a path.
func Resolve(g *Git, path string) (string, error) { return g.resolve("path", path) }
