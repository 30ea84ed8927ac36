package bolt

// FormatValue makes the stored form of a format for the tests.
func FormatValue(program string, format int) []byte {
	v, err := appendJSON(nil, formatKey, formatValue{Program: program, Format: format})
	if err != nil {
		panic(err)
	}
	return v
}
