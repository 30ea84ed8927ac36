package httpapi

// Misremember has the router take a machine for one of a partition.
func (rt *Router) Misremember(name string, partition int) { rt.found.put(name, partition) }

// Remembers tells where the router takes a machine to be.
func (rt *Router) Remembers(name string) (int, bool) { return rt.found.get(name) }

// RemembersFor tells where the router takes a machine to be that the holder of a token asks for.
func (rt *Router) RemembersFor(t *Token, kind, id string) (int, bool) {
	return rt.found.get(rememberedOf(t, kind, id, nil, nil))
}
