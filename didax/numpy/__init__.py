"x"
from didax.numpy import array_methods
