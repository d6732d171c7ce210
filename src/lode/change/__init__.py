"""Operations that change what is visible: overwrite, delete, merge, compact, restore. One snapshot each."""
