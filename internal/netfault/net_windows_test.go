package netfault_test

// child has nothing to do: there are no namespaces here.
func child() {}
