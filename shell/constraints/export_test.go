package constraints

// BuiltinTypes are the constraints that come with Orrery.
func BuiltinTypes() map[string]Type { return builtinTypes(nil) }

// BuiltinActions are the names of the actions that do.
func BuiltinActions() []string { return builtinActions }

// VariableNames are what texts may refer to.
func VariableNames() []string { return variableNames }
