"""Collective algorithms: what each costs a group on the legs of its route, as a function of size.

Every function returns the ways in which one algorithm can do one kind of collective; the fastest
way of all is what a library picks.
"""
