"""Operations of one snapshot each: create, evolve, overwrite, delete, merge, compact, restore, drop."""
