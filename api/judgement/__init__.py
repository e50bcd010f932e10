"""Is my data safe? Pure answers from what runners published and the store holds."""
