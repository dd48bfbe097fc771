"""Exchange with neighbours: of halos on grids, of any regions on graphs, in twenty forms and three more."""
