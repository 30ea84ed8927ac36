package local

func markedIDs(dir string) []int {
	all, err := processes()
	if err != nil {
		panic(err)
	}
	var ids []int
	for _, p := range marked(all, podDirVar+"="+dir, map[string]process{}) {
		ids = append(ids, p.pid)
	}
	return ids
}
