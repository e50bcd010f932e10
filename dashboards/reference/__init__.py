"""Documents made from the code: the page of concepts and the configuration reference."""
