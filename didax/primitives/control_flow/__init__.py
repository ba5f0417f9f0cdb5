"""Control flow: primitives that hold jaxprs and decide, at run time, which of them run and how often."""
