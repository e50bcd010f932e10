"""A life: a plan is lived in a world, and judged. ``coverage`` says which states of the tracker a harm met."""
